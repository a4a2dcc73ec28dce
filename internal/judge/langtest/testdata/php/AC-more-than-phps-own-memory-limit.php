<?php
$big = str_repeat('x', 200 << 20);
echo array_sum(explode(' ', fgets(STDIN))), "\n";
