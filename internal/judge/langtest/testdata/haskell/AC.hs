main :: IO ()
main = interact (\s -> show (sum (map read (words s)) :: Int) ++ "\n")
