// Forgets the way back to the first peg.
#include <cmath>
#include <iostream>

int main() {
    int n;
    double px, py, x, y, length = 0;
    std::cin >> n >> px >> py;
    while (std::cin >> x >> y) {
        length += std::hypot(x - px, y - py);
        px = x;
        py = y;
    }
    std::cout.precision(12);
    std::cout << length << '\n';
}
