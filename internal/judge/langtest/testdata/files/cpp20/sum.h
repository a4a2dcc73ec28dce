#pragma once
#include <bits/stdc++.h>
int sum(int a, int b);
