fn main() {
    let mut n = 1u64;
    while n != 0 {
        n = n.wrapping_mul(6364136223846793005) | 1;
    }
    println!("{}", n);
}
