// Keeps a page of notes for every number.
#include <iostream>
#include <memory>
#include <vector>

struct Note {
    int value;
    char text[4000];
};

int main() {
    std::ios::sync_with_stdio(false);
    int n, run = 0, best = 0;
    std::cin >> n;
    std::vector<std::unique_ptr<Note>> notes;
    for (int i = 0; i < n; ++i) {
        notes.push_back(std::make_unique<Note>());  // zeroed, so every page is touched
        std::cin >> notes[i]->value;
        run = i > 0 && notes[i]->value < notes[i - 1]->value ? 1 : run + 1;
        if (run > best) best = run;
    }
    std::cout << best << '\n';
}
