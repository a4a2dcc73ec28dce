<?php
$all = [];
for (;;) $all[] = str_repeat('x', 1 << 20);
