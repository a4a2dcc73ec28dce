// abuse: 38
// compile-cpu: 1500
#define A(x) x x x x x x x x
#define B(x) A(A(A(A(x))))
#define C(x) B(B(x))
int main(void) { C(C(1;)) }
