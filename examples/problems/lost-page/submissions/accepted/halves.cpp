// As the C solution; std::endl flushes.
#include <iostream>
#include <string>

int main() {
    int n;
    std::cin >> n;
    int low = 1, high = n;
    std::string word;
    do {
        int page = (low + high) / 2;
        std::cout << page << std::endl;
        std::cin >> word;
        if (word == "before")
            high = page - 1;
        else
            low = page + 1;
    } while (word != "here");
}
