// abuse: 38
// compile-cpu: 1500
template <int a, int b> struct x {
	static const long v = x<a - 1, b>::v + x<a, b - 1>::v + x<a - 1, b - 1>::v;
};
template <int b> struct x<0, b> { static const long v = 1; };
template <int a> struct x<a, 0> { static const long v = 1; };
int main() { return x<800, 800>::v; }
