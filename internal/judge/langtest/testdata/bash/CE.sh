if true; then
  echo 3
