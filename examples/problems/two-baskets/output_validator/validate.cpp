// Output validator: input answer feedback_dir [args] < output.
// Exits with 42 when the stones are in balance, with 43 otherwise.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::string feedback;

[[noreturn]] void wrong(const std::string &why) {
    std::ofstream(feedback + "judgemessage.txt") << why << '\n';
    std::exit(43);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 4) return 1;
    feedback = argv[3];
    if (!feedback.empty() && feedback.back() != '/') feedback += '/';
    std::ifstream input(argv[1]);
    int n;
    if (!(input >> n)) return 1;
    std::vector<long long> weights(n);
    for (auto &w : weights) {
        if (!(input >> w)) return 1;
    }
    long long sums[2] = {0, 0};
    std::string word;
    for (int i = 0; i < n; ++i) {
        if (!(std::cin >> word)) wrong("only " + std::to_string(i) + " of " + std::to_string(n) + " stones are in a basket");
        if (word != "1" && word != "2") wrong("stone " + std::to_string(i + 1) + " is in a basket that is neither 1 nor 2");
        sums[word[0] - '1'] += weights[i];
    }
    if (std::cin >> word) wrong("there is more after the last stone");
    long long heaviest = *std::max_element(weights.begin(), weights.end());
    long long difference = std::llabs(sums[0] - sums[1]);
    if (difference > heaviest) {
        wrong("the baskets differ by " + std::to_string(difference) + ", the heaviest stone weighs " + std::to_string(heaviest));
    }
    return 42;
}
