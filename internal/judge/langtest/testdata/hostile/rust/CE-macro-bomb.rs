// abuse: 38
// compile-cpu: 2000
#![recursion_limit = "1000000"]
macro_rules! m { ($($t:tt)*) => { m!($($t)* $($t)* x) } }
fn main() { m!(x); }
