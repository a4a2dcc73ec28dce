<?php
echo array_sum(explode(' ', fgets(STDIN))), "\n";
