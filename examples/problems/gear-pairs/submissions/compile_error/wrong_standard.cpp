// Is written in C++20, but judged as C++17.
#include <iostream>
#include <ranges>

int main() {
    for (int teeth : std::views::iota(0, 10)) std::cout << teeth << '
';
}
