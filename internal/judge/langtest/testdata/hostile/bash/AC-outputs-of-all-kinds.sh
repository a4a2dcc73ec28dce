# abuse: 63 64 65 X01 48 50
# Links, pipes and sockets at every name that a judge might write or read here.
for name in out output stdout stderr prog run.sh run compile.sh cmd input answer result.json meta .gavel box.sock; do
	for dir in /w /tmp /dev/shm; do
		case $name in
		run*) ln -s /etc/passwd "$dir/$name" ;;
		out*) mkfifo "$dir/$name" ;;
		std*) ln -s /proc/1/root "$dir/$name" ;;
		*) ln -s /root/.profile "$dir/$name" ;;
		esac
	done
done
echo held
