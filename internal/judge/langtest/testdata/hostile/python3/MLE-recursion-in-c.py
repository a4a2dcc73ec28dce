# abuse: 20
import ctypes

# The C library's sort calls back into Python, which calls the sort.
libc = ctypes.CDLL(None)
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
values = (ctypes.c_int * 2)(2, 1)

@kind
def compare(a, b):
    libc.qsort(values, 2, 4, compare)
    return 0

import sys
sys.setrecursionlimit(1 << 30)
libc.qsort(values, 2, 4, compare)
