import Sums

main :: IO ()
main = getLine >>= print . total
