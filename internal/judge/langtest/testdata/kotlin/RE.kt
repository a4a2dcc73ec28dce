fun main() = println(listOf<Int>()[7])
