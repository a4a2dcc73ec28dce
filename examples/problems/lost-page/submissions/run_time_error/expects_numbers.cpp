// Reads the answer as a number, and does not like what it gets. @EXPECTED_RESULTS@: RUN-ERROR
#include <cstdlib>
#include <iostream>

int main() {
    int n, answer;
    std::cin >> n;
    std::cout << n << std::endl;
    if (!(std::cin >> answer))
        return EXIT_FAILURE;
}
