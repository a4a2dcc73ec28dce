pub fn sum(text: &str) -> i32 {
    text.split_whitespace().map(|w| w.parse::<i32>().unwrap()).sum()
}
