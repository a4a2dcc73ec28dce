# abuse: 42 43 66 X03
for place in tcp/127.0.0.1/22 tcp/127.0.0.1/5432 tcp/127.0.0.1/8080 tcp/169.254.169.254/80 tcp/8.8.8.8/53 udp/8.8.8.8/53; do
	if (exec 3<>/dev/$place && echo x >&3) 2>/dev/null; then echo "reached $place"; fi
done
for socket in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/systemd/private /run/dbus/system_bus_socket /var/run/postgresql/.s.PGSQL.5432; do
	[ -e "$socket" ] && echo "$socket is there"
done
echo held
