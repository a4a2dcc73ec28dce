// abuse: 20
// The stack may be as large as the memory, so the memory is what it runs out of.
int f(volatile int *p) {
	volatile int x[1000];
	x[0] = *p + 1;
	return f(x) + x[0];
}
int main() { volatile int x = 0; return f(&x); }
