# Ten thousand sessions by our client, each of a program that does nothing: what each recorded, and those that were not well.
section sessions
number=0 bytes=0 bad=0
while [ $number -lt 10000 ]; do
    spe_client -e arm_spe_0/ts_enable=1/ -c 4096 -o /tmp/session true >said || bad=$((bad + 1))
    read -r _ _ _ size _ _ _ truncated _ collided _ partial _ lost <said
    [ "$truncated$collided$partial$lost" = 0000 ] || bad=$((bad + 1))
    bytes=$((bytes + size)) number=$((number + 1))
done
echo "sessions $number bytes $bytes bad $bad"
