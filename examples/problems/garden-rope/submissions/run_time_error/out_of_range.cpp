// Looks for the peg after the last one. @EXPECTED_RESULTS@: RUN-ERROR
#include <cmath>
#include <iostream>
#include <vector>

int main() {
    int n;
    std::cin >> n;
    std::vector<double> x(n), y(n);
    for (int i = 0; i < n; ++i) std::cin >> x[i] >> y[i];
    double length = 0;
    for (int i = 0; i < n; ++i) length += std::hypot(x.at(i) - x.at(i + 1), y.at(i) - y.at(i + 1));
    std::cout << length << '\n';
}
