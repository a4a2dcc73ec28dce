fn main() {
    let x: Vec<i32> = Vec::new();
    println!("{}", x[7]);
}
