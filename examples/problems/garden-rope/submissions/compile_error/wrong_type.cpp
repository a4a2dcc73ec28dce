#include <iostream>
#include <string>

int main() {
    std::string length = 12.5 * "metres";
    std::cout << length << '\n';
}
