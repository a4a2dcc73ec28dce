#include <iostream>

int main() {
    int n;
    std::cin >> n;
    volatile int seen = 0;
    while (n > 0) {
        seen = 1 - seen;  // n stays as it is
    }
    std::cout << seen << '\n';
}
