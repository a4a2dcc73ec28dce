# abuse: 61 16
for what in c d e i l m n q r s t u v x; do
	hard=$(ulimit -H$what)
	[ "$hard" = unlimited ] && continue
	ulimit -H$what unlimited 2>/dev/null && echo "raised limit $what from $hard"
done
nice -n -5 true 2>/dev/null | grep -q . && echo "negative nice"
exec "$BASH" -c 'ulimit -Hn unlimited 2>/dev/null && echo "raised after exec"; echo held'
