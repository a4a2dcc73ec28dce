fun main() = println(missing)
