// Measures the run from every start.
#include <iostream>
#include <vector>

int main() {
    std::ios::sync_with_stdio(false);
    int n;
    std::cin >> n;
    std::vector<int> tape(n);
    for (int &x : tape) std::cin >> x;
    int best = 0;
    for (int start = 0; start < n; ++start) {
        volatile int length = 1;
        while (start + length < n && tape[start + length] >= tape[start + length - 1]) length = length + 1;
        if (length > best) best = length;
    }
    std::cout << best << '\n';
}
