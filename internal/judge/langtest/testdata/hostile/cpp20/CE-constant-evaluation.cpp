// abuse: 38 36
// compile-cpu: 1500
constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
static_assert(f(90) > 0);
int main() {}
