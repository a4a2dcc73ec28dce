<?php
// abuse: 17 V12
$s = 'x';
for (;;) $s .= $s;
