// abuse: 19 17
char a[1u << 30];
int main(void) {
	for (volatile char *p = a; p < a + sizeof a; p += 4096)
		*p = 1;
}
