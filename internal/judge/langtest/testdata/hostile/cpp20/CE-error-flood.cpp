// abuse: 39
// compile-cpu: 3000
#include <map>
#include <string>
#include <vector>
#define A auto x = std::map<std::vector<std::string>, std::map<int, std::vector<double>>>() + 1;
#define B A A A A A A A A
#define C B B B B B B B B
void f() { {C} {C} {C} {C} }
