# abuse: 70 74
echo 'gavel-box-init: box init: no setup message' >&2
echo 'exec: no such file or directory' >&2
exit 127
