// Deals the stones out in the order of their weights, one stone a line.
#include <algorithm>
#include <iostream>
#include <numeric>
#include <vector>

int main() {
    int n;
    std::cin >> n;
    std::vector<long long> weight(n);
    for (auto &w : weight) std::cin >> w;
    std::vector<int> order(n), basket(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return weight[a] > weight[b]; });
    long long balance = 0;
    for (int i : order) {
        basket[i] = balance < 0 ? 1 : 2;
        balance += basket[i] == 1 ? weight[i] : -weight[i];
    }
    for (int b : basket) std::cout << b << '\n';
}
