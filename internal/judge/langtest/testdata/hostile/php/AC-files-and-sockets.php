<?php
// abuse: 35 42 75
foreach (['/etc/shadow', '/proc/1/environ', '/root/.profile', 'file:///etc/shadow', 'http://169.254.169.254/', 'phar:///etc/shadow'] as $path)
	if (@file_get_contents($path) !== false) echo "read $path\n";
foreach (['tcp://127.0.0.1:22', 'udp://8.8.8.8:53', 'unix:///var/run/docker.sock'] as $where) {
	$s = @stream_socket_client($where, $code, $text, 1);
	if ($s && @fwrite($s, "x") === 1) echo "reached $where\n";
}
if (trim(shell_exec('id -u')) !== '1000') echo "other id\n";
echo "held\n";
