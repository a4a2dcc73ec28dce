<?php
missing();
