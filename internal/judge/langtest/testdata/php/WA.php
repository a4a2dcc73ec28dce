<?php
echo "3\n";
