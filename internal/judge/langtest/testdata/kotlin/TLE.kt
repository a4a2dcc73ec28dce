fun main() {
    var n = 0
    while (true) n++
}
