// abuse: 36
fn main() {
    for v in [option_env!("HOSTNAME"), option_env!("USER"), option_env!("SSH_CONNECTION"), option_env!("GAVEL_WORKER_TOKEN"), option_env!("SUDO_USER")] {
        if let Some(v) = v { println!("{}", v); }
    }
    println!("held");
}
