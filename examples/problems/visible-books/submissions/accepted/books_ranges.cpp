// Judged as C++20, see submissions.yaml.
#include <algorithm>
#include <iostream>
#include <ranges>
#include <span>
#include <vector>

int main() {
    int n;
    std::cin >> n;
    std::vector<long> heights(n);
    for (long &h : heights) std::cin >> h;
    auto records = std::views::iota(0, n) | std::views::filter([tallest = 0L, view = std::span(heights)](int i) mutable {
        if (view[i] <= tallest) return false;
        tallest = view[i];
        return true;
    });
    std::cout << std::ranges::distance(records) << '\n';
}
