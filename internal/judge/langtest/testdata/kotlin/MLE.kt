fun main() {
    val all = ArrayList<ByteArray>()
    while (true) all.add(ByteArray(1 shl 20))
}
