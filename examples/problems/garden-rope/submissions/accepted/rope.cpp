// Prints in scientific notation, which is a number as well.
#include <cmath>
#include <complex>
#include <iomanip>
#include <iostream>
#include <vector>

int main() {
    int n;
    std::cin >> n;
    std::vector<std::complex<double>> pegs(n);
    for (auto &p : pegs) {
        double x, y;
        std::cin >> x >> y;
        p = {x, y};
    }
    double length = 0;
    for (int i = 0; i < n; ++i) length += std::abs(pegs[i] - pegs[(i + 1) % n]);
    std::cout << std::scientific << std::setprecision(12) << length << '\n';
}
