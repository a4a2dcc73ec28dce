<?php
for (;;) {}
