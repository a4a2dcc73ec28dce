use std::io::{self, Read};

fn main() {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).unwrap();
    println!("{}", text.split_whitespace().map(|w| w.parse::<i32>().unwrap()).sum::<i32>());
}
