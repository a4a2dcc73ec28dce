<?php
echo $undefined, array_sum(explode(' ', fgets(STDIN))), "\n";
