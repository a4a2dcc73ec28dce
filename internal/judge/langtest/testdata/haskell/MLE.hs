import qualified Data.Map.Strict as M

main :: IO ()
main = print (M.size (foldr (\n -> M.insert n n) M.empty [1 .. 100000000 :: Int]))
