#include <iostream>
int main() { std::cout << 3 << '\n'; }
