// abuse: 18 V02
// signal: 6
#include <new>
int main() { return *new char[~0ul >> 2]; }
