#include <baskets.h>

int main() {
    return fill_baskets();
}
