fn main() {
    println!("{}", missing);
}
